"""The links (RULES.md section 7): one queue per NIC, shared by the instances behind it, and one per PCIe."""


class Links:
    """When each link is free, in ticks.

    Args:
        config: the cluster.
        step_times: one per instance, for the bytes of a token.
    """

    def __init__(self, config, step_times):
        per_server = config.instances_per_server or step_times[0].instances_per_server
        self.nic_of = [
            i // per_server * config.nics_per_server + i % per_server * config.nics_per_server // per_server
            for i in range(len(step_times))
        ]
        self.nic_free = dict.fromkeys(self.nic_of, 0)
        self.pcie_free = [0] * len(step_times)
        self.nic_latency = round(config.nic_latency_s * 10**12)
        self.pcie_latency = round(config.pcie_latency_s * 10**12)
        self.nic_token = [_token_ticks(t, config.nic_bytes_per_s) for t in step_times]
        self.pcie_token = [_token_ticks(t, config.pcie_bytes_per_s) for t in step_times]

    def load(self, now, instance, tokens):
        """Queue a load from the global tier: over the NIC, then over PCIe; the time when it has arrived."""
        nic = self.nic_of[instance]
        begin = max(now, self.nic_free[nic])
        there = self.nic_free[nic] = begin + self.nic_latency + tokens * self.nic_token[instance]
        begin = max(there, self.pcie_free[instance])
        self.pcie_free[instance] = begin + self.pcie_latency + tokens * self.pcie_token[instance]
        return self.pcie_free[instance]

    def transfer(self, now, source, target, tokens):
        """Queue a prefill-to-decode transfer on the NICs of both sides; the time when it ends."""
        a, b = self.nic_of[source], self.nic_of[target]
        begin = max(now, self.nic_free[a], self.nic_free[b])
        token_ticks = max(self.nic_token[source], self.nic_token[target])
        self.nic_free[a] = self.nic_free[b] = begin + self.nic_latency + tokens * token_ticks
        return self.nic_free[a]


def _token_ticks(step_time, bytes_per_s):
    return round(step_time.kv_bytes_per_token / bytes_per_s * 1e12)
