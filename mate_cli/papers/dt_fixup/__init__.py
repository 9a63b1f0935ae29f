"""DT-Fixup: added layers, text-to-SQL and multiple-choice reading (Xu et al., ACL 2021)."""
