# Not tried: nix, of the folder that `packaging/build folder` makes, with the loader that NixOS has.
{ pkgs ? import <nixpkgs> { } }:
pkgs.stdenv.mkDerivation rec {
  pname = "chatapp";
  version = "@VERSION@";
  src = pkgs.fetchurl {
    url = "@URL@/chatapp-${version}-linux-x86_64.tar.gz";
    sha256 = "@SHA256@";
  };
  nativeBuildInputs = [ pkgs.autoPatchelfHook ];
  buildInputs = [ pkgs.stdenv.cc.cc.lib pkgs.zlib ];
  dontStrip = true;
  installPhase = ''
    mkdir -p $out/lib/chatapp $out/bin
    cp -a . $out/lib/chatapp
    ln -s ../lib/chatapp/chatapp $out/bin/chatapp
  '';
  meta.license = pkgs.lib.licenses.asl20;
}
