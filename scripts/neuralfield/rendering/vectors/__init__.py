"""Drawings as vector graphics, traced in renders of fitted networks."""
