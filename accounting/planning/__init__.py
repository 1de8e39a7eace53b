"""What a run would cost and answer, from public or simulated votes only: calibration, assessment, vote files."""
