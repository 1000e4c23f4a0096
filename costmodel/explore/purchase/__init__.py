"""Which machines to buy or rent, and how many: offers, the smallest cluster for a job, several jobs at once."""
