"""The stages of one event's training step, compiled into the kernels that call them.

Offsets count float32 entries. A row is [values | sums | low parts of the sums], each `width`
long; `store` may write up to seven entries past what it means to, so buffers end with SLACK, and
rows of products and gradients are written in ascending order.
"""

import numpy as np

from divergence.jit import inlined
from divergence.lanemath import begin_fast_power, begin_power, end_fast_power, end_power, f32
from divergence.rules.hooks import gradient_limit, move, norm_limit, sense, update_limit
from divergence.simd import (
    WIDTH,
    absolute,
    any_not_below,
    fma,
    item,
    lane_max,
    lane_sum,
    larger,
    load,
    prefetch,
    put,
    splat,
    store,
)
from trainer.geometry import PARTS

LINE = 16  # float32 in a cache line
SLACK = WIDTH  # how far a store may reach past the end of what it means to write


@inlined
def slots(start, i, fixed):
    """The first slot of event i, and the first of the next."""
    if fixed > 0:
        return i * fixed, (i + 1) * fixed
    return item(start, i), item(start, i + 1)


@inlined
def ask(table, rows, first, last, size):
    """Prefetch the rows of these slots."""
    for slot in range(first, last):
        at = np.int64(item(rows, slot)) * size
        for j in range(0, size, LINE):
            prefetch(table, at + j)


@inlined
def look_up(rows, first, start, stop, size, mus, at, mu):
    """Where the rows of these slots are, and their multipliers."""
    for slot in range(start, stop):
        row = np.int64(item(rows, first + slot - start))
        put(at, slot, row * size)
        put(mu, slot, item(mus, row))


@inlined
def write_back(rows, first, start, stop, mus, mu):
    """The multipliers back to where `look_up` found them."""
    for slot in range(start, stop):
        put(mus, np.int64(item(rows, first + slot - start)), item(mu, slot))


@inlined
def mix(user, feature, u0, n_u, at, weight, where, shape):
    """where[k]: the vector of feature k, its value's own row or a scratch row with the mean."""
    if shape.user_slots > 0:  # slots are features, and `where` is `at` itself
        return
    size = PARTS * shape.user_padded
    scratch = len(user) - shape.features * size
    before = -1
    for slot in range(n_u):
        k = np.int64(item(feature, u0 + slot))
        if k != before and (slot + 1 == n_u or item(feature, u0 + slot + 1) != k):
            put(where, k, item(at, slot))
        else:
            to, w = scratch + k * size, splat(item(weight, slot))
            put(where, k, to)
            for j in range(0, shape.user_padded, WIDTH):
                so_far = load(user, to + j) if k == before else splat(f32(0.0))
                store(user, to + j, fma(w, load(user, item(at, slot) + j), so_far))
        before = k


@inlined
def user_vector(user, where, shape, nu_u):
    """The products of each pair of features' shared entries, then their lone entries."""
    K, o, s = shape.features, shape.overlap, shape.alone
    t = 0
    for p in range(K):
        for q in range(p + 1, K):
            left, right = item(where, p) + (q - 1) * o, item(where, q) + p * o
            for j in range(0, o, WIDTH):
                store(nu_u, t + j, load(user, left + j) * load(user, right + j))
            t += o
    for k in range(K):
        for j in range(0, s, WIDTH):
            store(nu_u, t + j, load(user, item(where, k) + (K - 1) * o + j))
        t += s
    store(nu_u, t, splat(f32(0.0)))


@inlined
def ad_vector(ad, at, weight, first, last, nu_u, nu_a, shape):
    """The weighted sum of the ad's rows; returns its product with the user's vector."""
    dot = splat(f32(0.0))
    for j in range(0, shape.ad_padded, WIDTH):
        v = splat(f32(0.0))
        for slot in range(first, last):
            w = f32(1.0) if shape.ad_slots > 0 else item(weight, slot)
            v = fma(splat(w), load(ad, item(at, slot) + j), v)
        store(nu_a, j, v)
        dot = fma(v, load(nu_u, j), dot)
    return lane_sum(dot)


@inlined
def feature_gradients(user, where, shape, nu_a, g, gradient):
    """The gradient of the loss for each feature's vector: the way of `user_vector` back."""
    K, o, s = shape.features, shape.overlap, shape.alone
    stride = shape.user_padded + SLACK
    g = splat(g)
    t = 0
    for p in range(K):
        for q in range(p + 1, K):
            for j in range(0, o, WIDTH):
                h = g * load(nu_a, t + j)
                left = load(user, item(where, p) + (q - 1) * o + j)
                right = load(user, item(where, q) + p * o + j)
                store(gradient, p * stride + (q - 1) * o + j, h * right)
                store(gradient, q * stride + p * o + j, h * left)
            t += o
    for k in range(K):
        to = k * stride + (K - 1) * o
        for j in range(0, s, WIDTH):
            store(gradient, to + j, g * load(nu_a, t + j))
        store(gradient, to + s, splat(f32(0.0)))
        t += s


@inlined
def add_up(
    table, width, length, slots, at, source, weight, c, share, gradient, rule, sums, x, single
):
    """Add |gradient| to the sums of these slots' rows, and copy the sums to sums[x:].

    `share` becomes the weight with which each gradient counts, at most what the rule allows.
    Returns the end of what was copied. Where features are `single`, all weights are 1.
    """
    limit = gradient_limit(rule)
    before, square = -1, f32(0.0)
    for slot in range(slots[0], slots[1]):
        w = f32(1.0) if single else item(weight, slot)
        if limit < np.inf:
            if item(source, slot) != before:  # an ad's features share one gradient
                before = item(source, slot)
                square = squared(gradient, before, width)
            w = clip(w, square, limit)
        put(share, slot, w)
        add_up_row(
            table,
            item(at, slot),
            width,
            gradient,
            item(source, slot),
            w,
            item(c, slot),
            rule,
            sums,
            x,
        )
        x += length
    return x


@inlined
def squared(gradient, source, width):
    """The squared norm of a gradient."""
    total = splat(f32(0.0))
    for j in range(0, width, WIDTH):
        total = fma(load(gradient, source + j), load(gradient, source + j), total)
    return lane_sum(total)


@inlined
def clip(weight, square, limit):
    """The weight with which a gradient of this squared norm is no longer than the limit."""
    if weight * weight * square > limit * limit:
        return limit / np.sqrt(square)
    return weight


@inlined
def add_up_row(table, at, width, gradient, source, weight, c, rule, sums, x):
    """`add_up` for one row. A sum is a compensated pair, so that small steps are never lost."""
    w, c = splat(weight), splat(c)
    for j in range(0, width, WIDTH):
        g = absolute(sense(rule, c, load(table, at + j), w * load(gradient, source + j)))
        high = load(table, at + width + j)
        low = load(table, at + 2 * width + j) + g
        total = high + low
        store(table, at + width + j, total)
        store(table, at + 2 * width + j, low - (total - high))
        store(sums, x + j, total)


@inlined
def slowness(sums, whole, n, alpha, beta, constants, reference):
    """sums[:n] <- alpha + sums ** beta, by which eta0 is divided."""
    if reference:
        for j in range(0, n, WIDTH):
            small, exponent = begin_power(load(sums, j), beta, constants)
            store(sums, j, small)
            store(whole, j, exponent)
        for j in range(0, n, WIDTH):
            power = end_power(load(sums, j), load(whole, j), beta, constants)
            store(sums, j, alpha + power)
    else:
        for j in range(0, n, WIDTH):
            store(sums, j, begin_fast_power(load(sums, j), beta, constants))
        for j in range(0, n, WIDTH):
            store(sums, j, alpha + end_fast_power(load(sums, j), constants))


@inlined
def step(
    table,
    width,
    length,
    slots,
    at,
    source,
    share,
    c,
    square,
    gradient,
    rule,
    rates,
    slowness,
    x,
    before,
    even,
):
    """Move the rows of these slots; `square` becomes their squared norms.

    Returns the end of their part of `slowness`, and whether some entry is not below tau. Where
    shares are `even`, all are 1.
    """
    eta0, tau = splat(f32(rates.eta0)), f32(rates.tau)
    beyond = False
    for slot in range(slots[0], slots[1]):
        w = f32(1.0) if even else item(share, slot)
        norm2 = step_row(
            table,
            item(at, slot),
            width,
            gradient,
            item(source, slot),
            w,
            item(c, slot),
            rule,
            eta0,
            slowness,
            x,
            before,
        )
        norm2 = hold(table, item(at, slot), width, norm2, norm_limit(rule, f32(length)))
        put(square, slot, norm2)
        if not norm2 < tau * tau * f32(0.9999):  # an entry may be beyond tau, or NaN: look
            beyond |= reaches(table, item(at, slot), width, splat(tau))
        x += length
    return x, beyond


@inlined
def step_row(table, at, width, gradient, source, weight, c, rule, eta0, slowness, x, before):
    """Move one row; return its squared norm."""
    w, c = splat(weight), splat(c)
    relative, most = update_limit(rule)
    total = excess = splat(f32(0.0))
    for j in range(0, width, WIDTH):
        theta = load(table, at + j)
        new = move(rule, c, theta, w * load(gradient, source + j), eta0, load(slowness, x + j))
        store(table, at + j, new)
        total = fma(new, new, total)
        if most < np.inf:
            store(before, j, theta)
            allowed = fma(splat(relative), absolute(theta), splat(most))
            excess = larger(absolute(new - theta) - allowed, excess)
    if most < np.inf and lane_max(excess) > f32(0.0):
        return shorten(table, at, width, before, relative, most)
    return lane_sum(total)


@inlined
def shorten(table, at, width, before, relative, most):
    """Scale a row's update down until no entry moves too far; return the squared norm."""
    strain = splat(f32(1.0))
    for j in range(0, width, WIDTH):
        theta = load(before, j)
        allowed = fma(splat(relative), absolute(theta), splat(most))
        strain = larger(absolute(load(table, at + j) - theta) / allowed, strain)
    scale, total = splat(f32(1.0) / lane_max(strain)), splat(f32(0.0))
    for j in range(0, width, WIDTH):
        theta = load(before, j)
        new = fma(scale, load(table, at + j) - theta, theta)
        store(table, at + j, new)
        total = fma(new, new, total)
    return lane_sum(total)


@inlined
def hold(table, at, width, square, limit):
    """Scale a row back to the largest squared norm that the rule allows.

    A norm that is not finite stays as it is, for the check against tau to find.
    """
    if square > limit and square < f32(np.inf):
        shrink = splat(np.sqrt(limit / square))
        for j in range(0, width, WIDTH):
            store(table, at + j, shrink * load(table, at + j))
        return limit
    return square


@inlined
def reaches(table, at, width, tau):
    """Whether some entry of the row is not below tau in size (NaN counts)."""
    for j in range(0, width, WIDTH):
        if any_not_below(absolute(load(table, at + j)), tau):
            return True
    return False
