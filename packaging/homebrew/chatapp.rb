# Not tried: a formula of the wheel, in a virtual environment. SHA256 is that of the published sdist.
class Chatapp < Formula
  include Language::Python::Virtualenv

  desc "Chat and complete code with models that run on this machine"
  homepage "https://pypi.org/project/chatapp/"
  url "@URL@/chatapp-@VERSION@.tar.gz"
  sha256 "@SHA256@"
  license "Apache-2.0"
  depends_on "python@3.13"

  def install
    venv = virtualenv_create(libexec, "python3.13")
    system libexec/"bin/python", "-m", "pip", "install", "#{buildpath}[desktop]"
    bin.install_symlink libexec/"bin/chatapp"
    generate_completions_from_executable(bin/"chatapp", "completion")
  end

  test do
    assert_match "import", shell_output("#{bin}/chatapp run builtin 'import numpy as' --max-tokens 4 --offline")
  end
end
