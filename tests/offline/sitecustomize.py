"""Python imports this at its start when this folder is on PYTHONPATH: the processes of tests are offline too."""

import no_network

no_network.refuse()
