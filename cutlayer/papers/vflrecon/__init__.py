"""Zhu et al.: VFLRecon and VFLDefender."""
