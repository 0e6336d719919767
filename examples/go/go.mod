module read

go 1.21
