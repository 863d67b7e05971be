"""A request on its way through the cluster (RULES.md sections 1 and 3)."""

PENDING, PARKED, ROUTED, WAITING, LOADING, RUNNING, DONE, UNISSUED = (
    "pending",
    "parked",
    "routed",
    "waiting",
    "loading",
    "running",
    "done",
    "unissued",
)


class Request:
    """Plain values; times in ticks, None where something has not happened."""

    def __init__(self, trace, index, config):
        row = trace.requests[index]
        self.id = index
        self.prompt, self.output = int(row["prompt"]), int(row["output"])
        self.parent = int(row["parent"])
        self.recorded = round(float(row["arrival"]) * 10**12)
        self.gap = round(float(row["gap"]) * 10**12)
        self.children = []
        self.keys, self.path = _content(trace, int(row["node"]), config)

        self.state = PENDING
        self.epoch = 0  # counts its failures, so that events of a lost attempt can be told
        self.arrival = None  # the first one, kept over failures
        self.finish = None
        self.read_tokens = self.preemptions = self.retries = 0
        self.forget()

    def forget(self):
        """An attempt begins: nothing of this request is on any instance."""
        self.computed = self.generated = self.todo = 0
        self.blocks = []  # physical blocks, in order, and
        self.filled = 0  # how many of them were offered their content
        self.source = None  # the prefill instance whose blocks a transfer still needs
        self.source_blocks = []
        self.loaded = 0  # tokens that it has when its load ends
        self.to_come = True  # it will look for blocks: not admitted yet, or admitted in vain
        self.keeps = False  # its load has ended: it holds its blocks while it waits
        self.instance = self.decode = None
        self.admitted = self.first_token = self.handed_over = None
        self.local_hit = self.global_hit = 0

    @property
    def known(self):
        """Tokens whose values exist: prompt and sampled ones."""
        return self.prompt + self.generated

    @property
    def home(self):
        """The instance that runs it now: where it decodes, or else where it was routed."""
        return self.decode or self.instance

    def outcome(self):
        """What became of it."""
        names = (
            "state",
            "arrival",
            "admitted",
            "first_token",
            "handed_over",
            "finish",
            "local_hit",
            "global_hit",
            "read_tokens",
            "preemptions",
            "retries",
        )
        return {name: getattr(self, name) for name in names} | {
            "instance": self.instance.index if self.instance else -1,
            "decode_instance": self.decode.index if self.decode else -1,
        }


def _content(trace, leaf, config):
    """Content keys of the full blocks, and the path of ``(node, first chunk, end chunk)`` from the root."""
    nodes, at = [], leaf
    while at > 0:
        nodes.insert(0, (at, int(trace.nodes[at]["start"]), int(trace.nodes[at]["end"])))
        at = int(trace.nodes[at]["parent"])
    block, chunk, keys, path = config.block_tokens, config.chunk_tokens, [], []
    for node, start, end in nodes:
        keys += [(node, b) for b in range(start // block, end // block)]
        if end // chunk > start // chunk:
            path.append((node, start // chunk, end // chunk))
    return keys, path
