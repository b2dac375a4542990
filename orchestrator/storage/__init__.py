"""Folders on disks and object stores: write-once files, leases, checksums, outputs."""
