"""The scoring kernel: the logit of every event of a chunk, from rows that do not change.

Events are scored in small blocks, stage by stage, in buffers that stay in the first cache. It takes
about 0.7 of the time of one event after the other, and 0.45 where each ad is computed once: the
likely reason is that loads no longer wait for the stores just before them.
"""

import numpy as np

from divergence.jit import inlined, jit
from divergence.lanemath import f32
from divergence.simd import WIDTH, fma, item, lane_sum, load, put, splat, store
from divergence.subnormals import flush_subnormals, restore_subnormals
from trainer.geometry import PARTS

BLOCK = 16
SLACK = WIDTH  # how far a store may reach past the end of its target


@jit
def predict_block(user_rows, ad_rows, tables, shape, number, logits):
    """Compute the logit of every event: the same bits as the training kernel's before its step.

    Where `number` has entries, event i is about ad number[i] of `ad_rows`, whose vectors are then
    computed once. Otherwise event i of `ad_rows` is that of the user.
    """
    control = flush_subnormals()
    size, stride = shape.features * shape.user_padded, shape.ad_padded + SLACK
    features = np.zeros(BLOCK * size + SLACK, np.float32)
    users = np.zeros(BLOCK * stride, np.float32)
    shared = len(number) > 0
    ads = np.empty((len(ad_rows.start) - 1 if shared else BLOCK) * shape.ad_padded, np.float32)
    if shared:
        for i in range(len(ad_rows.start) - 1):
            _ad_vector(ad_rows, tables.ad, shape, i, ads, i * shape.ad_padded)
    bias = f32(tables.bias[0])
    for first in range(0, len(logits), BLOCK):
        last = min(first + BLOCK, len(logits))
        for i in range(first, last):
            _features(user_rows, tables.user, shape, i, features, (i - first) * size)
            if not shared:
                _ad_vector(ad_rows, tables.ad, shape, i, ads, (i - first) * shape.ad_padded)
        for b in range(last - first):
            _user_vector(features, b * size, shape, users, b * stride)
        for i in range(first, last):
            ad = np.int64(item(number, i)) if shared else i - first
            dot = splat(f32(0.0))
            for j in range(0, shape.ad_padded, WIDTH):
                mine = load(users, (i - first) * stride + j)
                dot = fma(load(ads, ad * shape.ad_padded + j), mine, dot)
            put(logits, i, bias + lane_sum(dot))
    restore_subnormals(control)


@inlined
def _features(rows, table, shape, event, features, to):
    """The vectors of an event's user features: each the weighted mean of its values' vectors."""
    width = shape.user_padded
    slot, end = slots_of(rows, shape.user_slots, event)
    for k in range(shape.features):
        at = np.int64(item(rows.row, slot)) * (PARTS * width)
        stop = slot + 1
        if shape.user_slots == 0:
            while stop < end and item(rows.feature, stop) == k:
                stop += 1
        for j in range(0, width, WIDTH):
            if stop == slot + 1:
                mean = load(table, at + j)
            else:
                mean = splat(item(rows.weight, slot)) * load(table, at + j)
                for other in range(slot + 1, stop):
                    value = np.int64(item(rows.row, other)) * (PARTS * width)
                    mean = fma(splat(item(rows.weight, other)), load(table, value + j), mean)
            store(features, to + k * width + j, mean)
        slot = stop


@inlined
def _user_vector(features, at, shape, users, to):
    """The products of each pair of features' shared entries, then their lone entries."""
    K, o, s, width = shape.features, shape.overlap, shape.alone, shape.user_padded
    t = to
    for p in range(K):
        for q in range(p + 1, K):
            left, right = at + p * width + (q - 1) * o, at + q * width + p * o
            for j in range(0, o, WIDTH):
                store(users, t + j, load(features, left + j) * load(features, right + j))
            t += o
    for k in range(K):
        for j in range(0, s, WIDTH):
            store(users, t + j, load(features, at + k * width + (K - 1) * o + j))
        t += s
    store(users, t, splat(f32(0.0)))


@inlined
def _ad_vector(rows, table, shape, event, ads, to):
    """The weighted sum of an ad's rows."""
    size = PARTS * shape.ad_padded
    begin, end = slots_of(rows, shape.ad_slots, event)
    for j in range(0, shape.ad_padded, WIDTH):
        v = splat(f32(0.0))
        for slot in range(begin, end):
            w = f32(1.0) if shape.ad_slots > 0 else item(rows.weight, slot)
            v = fma(splat(w), load(table, np.int64(item(rows.row, slot)) * size + j), v)
        store(ads, to + j, v)


@jit
def number_distinct(rows, slots, table, number, first):
    """Number the events of one side so that equal ones have the same number; return how many.

    first[n] becomes the first event with number n. `slots` is that of every event, 0 where events
    differ. `table` is scratch memory, all -1: a power of two above the number of events.
    """
    count = 0
    for i in range(len(number)):
        place = _hash(rows, slots, i) & np.uint64(len(table) - 1)
        while table[place] >= 0 and not _same(rows, slots, first[table[place]], i):
            place = (place + np.uint64(1)) & np.uint64(len(table) - 1)
        if table[place] < 0:
            table[place], first[count] = count, i
            count += 1
        number[i] = table[place]
    return count


@inlined
def _hash(rows, slots, event):
    begin, end = slots_of(rows, slots, event)
    found = np.uint64(14695981039346656037)
    for slot in range(begin, end):
        found = (found ^ np.uint64(rows.row[slot])) * np.uint64(1099511628211)
    return found ^ (found >> np.uint64(32))


@inlined
def _same(rows, slots, event, other):
    begin, end = slots_of(rows, slots, event)
    there, other_end = slots_of(rows, slots, other)
    if end - begin != other_end - there:
        return False
    for j in range(end - begin):
        if rows.row[begin + j] != rows.row[there + j]:
            return False
        if slots == 0 and rows.weight[begin + j] != rows.weight[there + j]:
            return False
    return True


@inlined
def slots_of(rows, slots, event):
    """The first slot of an event, and the end of its slots."""
    if slots > 0:
        return event * slots, (event + 1) * slots
    return item(rows.start, event), item(rows.start, event + 1)
