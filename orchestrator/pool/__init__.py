"""TrainerActor processes as Ray actors: dispatch, progress, replacement."""
