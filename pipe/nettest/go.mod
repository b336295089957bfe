module github.com/sluice-go/sluice/pipe/nettest

go 1.26

require (
	github.com/sluice-go/sluice v0.0.0
	golang.org/x/net v0.50.0
)

replace github.com/sluice-go/sluice => ../..
