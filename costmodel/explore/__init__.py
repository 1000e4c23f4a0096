"""Questions over many plans: search, compare, vary, explain, what to buy, import and export."""
