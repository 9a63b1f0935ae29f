"""Code of further papers, one subpackage per paper. Other packages of mate do not import this package."""
