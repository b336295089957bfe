module github.com/sluice-go/sluice/compat

go 1.26.0

require (
	github.com/coder/websocket v1.8.15
	github.com/dunglas/httpsfv v1.1.2
	github.com/go-chi/chi/v5 v5.5.0
	github.com/jackc/puddle/v2 v2.2.2
	github.com/sluice-go/sluice v0.0.0
	github.com/stretchr/testify v1.12.1
	go.uber.org/goleak v1.3.0
	golang.org/x/net v0.61.0
	golang.org/x/time v0.16.0
)

require (
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/sync v0.1.0 // indirect
)

replace github.com/sluice-go/sluice => ..
