"""Who talks to whom over which link, how much and how long."""
