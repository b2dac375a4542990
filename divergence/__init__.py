"""What holds a latent vector, and how we tell that it got away. Of use without the rest."""
