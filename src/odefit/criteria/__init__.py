"""What is minimised: from model values and data to residuals."""
