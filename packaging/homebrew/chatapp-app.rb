# Not tried: a cask of the disk image that packaging/macos/build makes.
cask "chatapp" do
  version "@VERSION@"
  sha256 "@SHA256@"
  url "@URL@/chatapp-#{version}.dmg"
  name "chatapp"
  desc "Chat and complete code with models that run on this machine"
  homepage "https://pypi.org/project/chatapp/"
  app "chatapp.app"
  binary "#{appdir}/chatapp.app/Contents/MacOS/chatapp"
  caveats "Conversations and models stay in ~/Library/Application Support/chatapp."
end
