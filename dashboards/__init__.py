"""What people see: the exporter, dashboards, alerts."""
