module read

// That of Debian 12 (golang-go), or newer.
go 1.19
