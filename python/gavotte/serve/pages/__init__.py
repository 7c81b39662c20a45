"""Show a store in a browser while commands write to it: networks over time, jobs, transfers and measurements."""
