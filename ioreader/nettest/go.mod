module github.com/sluice-go/sluice/ioreader/nettest

go 1.26.0

require (
	github.com/sluice-go/sluice v0.0.0
	golang.org/x/net v0.61.0
)

replace github.com/sluice-go/sluice => ../..
