"""Counters and timings for Prometheus."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from chatapp.generation import Usage
from chatapp.server.loaded import LoadedModels
from chatapp.server.queue import FairQueue

CONTENT_TYPE = CONTENT_TYPE_LATEST
TO_FIRST = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
PER_TOKEN = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 1)


class Metrics:
    """The metrics of one server."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # no second line per counter with its creation time
        self.registry = CollectorRegistry()
        to = self.registry
        route, model = ("method", "route", "status"), ("model",)
        self.requests = Counter("chatapp_requests", "Requests that were answered or refused", route, registry=to)
        self.disconnects = Counter("chatapp_disconnects", "Clients that left before their answer ended", registry=to)
        self.prompt_tokens = Counter("chatapp_prompt_tokens", "Tokens of prompts", model, registry=to)
        self.cached_tokens = Counter("chatapp_cached_tokens", "Of these, tokens from the cache", model, registry=to)
        self.completion_tokens = Counter("chatapp_completion_tokens", "Tokens of answers", model, registry=to)
        self.first = Histogram(
            "chatapp_time_to_first_token_seconds",
            "From entering the queue to the first token",
            model,
            buckets=TO_FIRST,
            registry=to,
        )
        self.token = Histogram("chatapp_token_seconds", "Between two tokens", model, buckets=PER_TOKEN, registry=to)
        self.waited = Histogram("chatapp_queue_seconds", "Waiting for a slot", buckets=TO_FIRST, registry=to)
        self.answering = Gauge("chatapp_requests_answering", "Requests in a slot", registry=to)
        self.waiting = Gauge("chatapp_requests_waiting", "Requests waiting for a slot", registry=to)
        self.memory = Gauge("chatapp_model_memory_bytes", "Approximate memory of an open model", model, registry=to)
        self.loads = Gauge("chatapp_model_loads", "Models that were opened so far", registry=to)

    def add_usage(self, model: str, usage: Usage) -> None:
        """Add the usage of an answer."""
        self.prompt_tokens.labels(model).inc(usage.prompt_tokens)
        self.cached_tokens.labels(model).inc(usage.cached_tokens)
        self.completion_tokens.labels(model).inc(usage.completion_tokens)
        if usage.completion_tokens:
            self.first.labels(model).observe(usage.time_to_first_token)
        observe = self.token.labels(model).observe
        for seconds in usage.latencies:
            observe(seconds)

    def write(self, queue: FairQueue, models: LoadedModels) -> bytes:
        """The metrics in Prometheus's text format."""
        self.answering.set(queue.answering)
        self.waiting.set(queue.waiting)
        self.loads.set(models.loads)
        self.memory.clear()
        for loaded in models.open.values():
            self.memory.labels(loaded.name).set(loaded.memory)
        return generate_latest(self.registry)
