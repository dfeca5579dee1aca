"""Python imports this at its start when this folder is on PYTHONPATH: the processes of tests are offline too."""

import os

import no_network
import silence

no_network.refuse()
if "NETWORK_NOTES" in os.environ:
    silence.refuse()
