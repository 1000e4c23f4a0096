"""The server: questions over HTTP, a page with pickers, and tools of the Model Context Protocol."""
