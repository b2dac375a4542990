"""What every rule must hold, ours and yours: checked by tests and by `holdfast rule check`."""
