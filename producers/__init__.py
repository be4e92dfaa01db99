"""What peers use: build, sign, store and publish segments; and the swarm simulator."""
