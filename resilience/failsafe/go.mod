module github.com/sluice-go/sluice/resilience/failsafe

go 1.25.0

require (
	github.com/failsafe-go/failsafe-go v0.9.8
	github.com/sluice-go/sluice v0.0.0
	github.com/stretchr/testify v1.11.1
	go.uber.org/goleak v1.3.0
)

require (
	github.com/bits-and-blooms/bitset v1.24.4 // indirect
	github.com/davecgh/go-spew v1.1.1 // indirect
	github.com/pmezard/go-difflib v1.0.0 // indirect
	gopkg.in/yaml.v3 v3.0.1 // indirect
)

replace github.com/sluice-go/sluice => ../..
