"""DT-Fixup: new layers behind old ones, text to SQL, and reading with options (Xu et al., ACL 2021)."""
