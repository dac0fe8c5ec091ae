"""Kits that judge any implementation, ours and others: device allocation (`dra`) and the endpoint picker (`epp`)."""
