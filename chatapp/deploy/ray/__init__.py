"""Many replicas of one model on Ray, behind a gateway that speaks the server's protocols.

A request passes these modules, in this order:

- `gateway.py`   the server of `chatapp serve`, whose only model is the one that is deployed
- `engine.py`    the engine of that model: it asks a replica, and goes on with another one where that is lost
- `replica.py`   the engine that computes, and what it says to the gateway
- `version.py`   what is deployed: files by their digests, and where they run
- `fetching.py`  the files, once for each node, from a shared folder or another node
- `ledger.py`    what all of the cluster know: the current version, who uses which, who has its files
- `cluster.py`   all that is Ray's: only this module imports it

How many nodes that serves, and what breaks first: docs/scale.md.
"""
