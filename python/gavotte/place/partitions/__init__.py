"""Starts of the search by partitioners that users may have installed: METIS, KaHIP and Mt-KaHyPar."""
