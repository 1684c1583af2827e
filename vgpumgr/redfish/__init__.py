"""Redfish: BMCs, PDUs and coolant units asked over HTTPS, and hosts switched off. DMTF DSP0266.

What they answer is not trusted: sizes, depths, kinds and ranges are bounded, redirects are not
followed, and every call has a deadline.
"""
