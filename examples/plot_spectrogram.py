"""
Two tones in a spectrogram
==========================

The power of a spectrum is uncertain by a factor, not by a number, so Itakura-Saito is the error to measure it by: a
faint tone counts as much as a loud one.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.signal import spectrogram

from dspnmf import NMF

rng = np.random.default_rng(0)
t = np.arange(0, 4, 1 / 8000)
loud = np.where(t % 1 < 0.5, np.sin(2 * np.pi * 440 * t), 0)
faint = np.where(t % 1 >= 0.5, 0.03 * np.sin(2 * np.pi * 1000 * t), 0)
f, frames, power = spectrogram(loud + faint + 0.001 * rng.standard_normal(t.size), 8000, nperseg=512)

# %%
# One component per tone, and when it sounds.
model = NMF(2, beta_loss="itakura-saito", random_state=0, max_iter=500, normalize=True)
codes = model.fit_transform(power.T + 1e-14)

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
left.semilogy(f, model.components_.T)
left.set(xlabel="frequency [Hz]", ylabel="power", title="components")
right.semilogy(frames, codes)
right.set(xlabel="time [s]", title="codes")
plt.show()
