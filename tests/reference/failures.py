"""Instances that go and come (RULES.md section 8)."""

from reference.events import ARRIVAL


def change(cluster, row):
    """A row of the schedule takes effect."""
    _time, index, up = cluster.config.schedule[row]
    instance = cluster.instances[index]
    if up and not instance.alive:
        _up(cluster, instance)
    elif not up and instance.alive:
        _down(cluster, instance)


def _up(cluster, instance):
    instance.alive = True
    cluster.wake(instance)
    if instance.decodes:
        waiting, cluster.unmatched = sorted(cluster.unmatched, key=lambda r: r.id), []
        for request in waiting:
            cluster.hand_over(request)
    else:
        for request in cluster.parked:
            cluster.push(cluster.now, ARRIVAL, request.id, request.epoch)
        cluster.parked = []


def _down(cluster, instance):
    instance.alive = False
    instance.epoch += 1
    others = set()
    for request in sorted(instance.members | instance.outgoing, key=lambda r: r.id):
        others |= _lose(cluster, request) - {instance}
    instance.lose_all()
    for other in sorted(others, key=lambda i: i.index):
        cluster.wake(other)


def _lose(cluster, request):
    """Take a request off every instance and send it to the router again; return the instances it was on."""
    for queue in (cluster.unmatched, request.home.waiting, request.home.running):
        if request in queue:
            queue.remove(request)
    if request.source:
        request.source.outgoing.remove(request)
        request.source.give_up(request.source_blocks)
    request.home.members.discard(request)
    request.home.give_up(request.blocks)
    touched = {request.home} | ({request.source} if request.source else set())
    request.epoch += 1
    request.retries += 1
    request.forget()
    cluster.push(cluster.now, ARRIVAL, request.id, request.epoch)
    return touched
