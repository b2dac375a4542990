"""The training loop as one would first write it with numba: scalar loops and scalar powers.

The benchmark keeps it as a yardstick: entropic rule, explicit step, single-valued features.
"""

import math
from typing import Any

import numpy as np
from numba import njit


@njit(error_model="numpy")
def train(click: Any, user_row: Any, ad_row: Any, shape: Any, setting: Any,
          user: Any, user_sum: Any, user_mu: Any, ad: Any, ad_sum: Any, ad_mu: Any, bias: Any,
          ) -> Any:  # fmt: skip
    """One pass; returns the event that diverged (or -1) and the summed log-loss."""
    K, o, s, d, N = shape
    eta0, alpha, beta, tau, rho, dual_step, floor, ceiling = setting
    nu_u, nu_a = np.empty(N, np.float32), np.empty(N, np.float32)
    g_u = np.empty((K, d), np.float32)
    loss = 0.0
    for i in range(len(click)):
        t = 0
        for p in range(K):
            for q in range(p + 1, K):
                for j in range(o):
                    left, right = (
                        user[user_row[i, p], (q - 1) * o + j],
                        user[user_row[i, q], p * o + j],
                    )
                    nu_u[t] = left * right
                    t += 1
        for k in range(K):
            for j in range(s):
                nu_u[t] = user[user_row[i, k], (K - 1) * o + j]
                t += 1
        logit = bias[0]
        for t in range(N):
            nu_a[t] = 0.0
            for k in range(ad_row.shape[1]):
                nu_a[t] += ad[ad_row[i, k], t]
            logit += nu_u[t] * nu_a[t]
        margin = -logit if click[i] else logit
        loss += max(margin, 0.0) + math.log1p(math.exp(-abs(margin)))
        g = np.float32(1.0 / (1.0 + math.exp(-logit)) - click[i])
        t = 0
        for p in range(K):
            for q in range(p + 1, K):
                for j in range(o):
                    left, right = (
                        user[user_row[i, p], (q - 1) * o + j],
                        user[user_row[i, q], p * o + j],
                    )
                    g_u[p, (q - 1) * o + j] = g * nu_a[t] * right
                    g_u[q, p * o + j] = g * nu_a[t] * left
                    t += 1
        for k in range(K):
            for j in range(s):
                g_u[k, (K - 1) * o + j] = g * nu_a[t]
                t += 1
        worst = np.float32(0.0)
        for k in range(K):
            r = user_row[i, k]
            square = np.float32(0.0)
            for j in range(d):
                grad = g_u[k, j] + np.float32(2.0) * user_mu[r] / d * user[r, j]
                user_sum[r, j] += abs(grad)
                user[r, j] -= eta0 / (alpha + user_sum[r, j] ** beta) * grad
                square += user[r, j] * user[r, j]
                worst = max(worst, abs(user[r, j]))
            mu = user_mu[r] * math.exp(dual_step * (square / d - rho))
            user_mu[r] = min(max(mu, floor), ceiling)
        for k in range(ad_row.shape[1]):
            r = ad_row[i, k]
            square = np.float32(0.0)
            for j in range(N):
                grad = g * nu_u[j] + np.float32(2.0) * ad_mu[r] / N * ad[r, j]
                ad_sum[r, j] += abs(grad)
                ad[r, j] -= eta0 / (alpha + ad_sum[r, j] ** beta) * grad
                square += ad[r, j] * ad[r, j]
                worst = max(worst, abs(ad[r, j]))
            mu = ad_mu[r] * math.exp(dual_step * (square / N - rho))
            ad_mu[r] = min(max(mu, floor), ceiling)
        bias[1] += abs(g)
        bias[0] -= eta0 / (alpha + bias[1] ** beta) * g
        if not worst < tau:
            return i, loss
    return -1, loss
