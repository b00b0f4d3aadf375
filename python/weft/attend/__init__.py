"""`weft.attention`: checks, the choice of tiles, and the launches. `weft.attend.kernels` are its kernels."""
