"""Replicas of one model on Ray, behind a gateway that speaks the server's protocols.

A request passes these modules, in this order:

- `gateway.py`   the server of `chatapp serve`, whose only model is the deployed one
- `engine.py`    the engine of that model: it asks a replica, and continues with another if that is lost
- `replica.py`   the engine that computes, and what it sends to the gateway
- `version.py`   what is deployed: files by digest, and placement
- `fetching.py`  downloads the files once per node, from a shared folder or another node
- `ledger.py`    the cluster's shared state: current version, its users, and the nodes that have its files
- `cluster.py`   everything that uses Ray's API: only this module imports it

How many nodes that serves, and what breaks first: docs/scale.md.
"""
