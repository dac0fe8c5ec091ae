"""What is simulated: clusters with their controllers and kubelets, and engines that answer HTTP."""
