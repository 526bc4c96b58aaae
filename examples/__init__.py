"""Programs that use Mnemon, to run and to copy from."""
