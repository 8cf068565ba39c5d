"""Programs of our own in other languages, as people write them there; each is run where its language is installed."""
