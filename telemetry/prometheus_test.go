package telemetry_test

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	client "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/resilience"
	"github.com/sluice-go/sluice/telemetry"
	"github.com/sluice-go/sluice/telemetry/prometheus"
)

// scrape asks a server for the metrics of a registry, in Prometheus' text format.
func scrape(t *testing.T, r *client.Registry) (families map[string]*dto.MetricFamily) {
	t.Helper()
	server := httptest.NewServer(promhttp.HandlerFor(r, promhttp.HandlerOpts{}))
	defer server.Close()
	request := core.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, http.NoBody))
	answer, err := server.Client().Do(request)
	require.NoError(t, err)
	defer func() { require.NoError(t, answer.Body.Close()) }()
	body, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, answer.StatusCode, string(body))
	require.Contains(t, answer.Header.Get("Content-Type"), "text/plain")
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err = parser.TextToMetricFamilies(strings.NewReader(string(body)))
	require.NoError(t, err)
	maps.DeleteFunc(families, func(name string, _ *dto.MetricFamily) bool { return !strings.HasPrefix(name, "sluice_") })
	return families
}

// exported returns a scrape of the metrics that use makes, by way of OpenTelemetry's exporter.
func exported(t *testing.T, use func(telemetry.Options)) map[string]*dto.MetricFamily {
	t.Helper()
	r := client.NewRegistry()
	e, err := exporter.New(exporter.WithRegisterer(r), exporter.WithoutScopeInfo())
	require.NoError(t, err)
	use(telemetry.Options{MeterProvider: metric.NewMeterProvider(metric.WithReader(e))})
	return scrape(t, r)
}

// Exporters reject text that is not valid UTF-8, and a scrape fails as a whole.
func TestNamesThatAreNotUTF8(t *testing.T) {
	families := exported(t, func(o telemetry.Options) {
		tell := core.Must(telemetry.Resilience(o))
		tell(t.Context(), &resilience.RejectedError{Strategy: "GET /\xff"})
		_, _, err := telemetry.Instrument(o, "\xfe", concurrency(t, 1, 0))
		require.NoError(t, err)
	})
	require.Contains(t, families["sluice_resilience_events_total"].String(), "GET /\uFFFD")
	require.Contains(t, families["sluice_limiter_permits_limit"].String(), "\uFFFD")
}

// shape says what kind of metric a family is, and which labels its series have.
func shape(f *dto.MetricFamily) string {
	labels := make(map[string]bool)
	for _, m := range f.GetMetric() {
		for _, l := range m.GetLabel() {
			labels[l.GetName()] = true
		}
	}
	return strings.Join(append([]string{strings.ToLower(f.GetType().String())}, names(labels)...), " ")
}

// What package prometheus shows is what OpenTelemetry's exporter does, by name, help, kind, labels and buckets.
func TestOneSpelling(t *testing.T) {
	observe := func(o httplimit.Observer, err error) httplimit.Observer {
		require.NoError(t, err)
		observeHTTP(o)
		return o
	}
	web, calls := prometheus.NewHTTP(), prometheus.NewGRPC()
	for name, c := range map[string]struct {
		collector client.Collector
		use       func(telemetry.Options)
	}{
		"limiters": {prometheus.NewCollector(map[string]core.Reporter{"api": counts{}}), func(o telemetry.Options) {
			core.Must(telemetry.Observe(o, "api", counts{}))
		}},
		"HTTP": {web, func(o telemetry.Options) { observe(telemetry.HTTP(o)); observe(web, nil) }},
		"gRPC": {calls, func(o telemetry.Options) { observe(telemetry.GRPC(o)); observe(calls, nil) }},
	} {
		t.Run(name, func(t *testing.T) {
			want, plain := exported(t, c.use), client.NewPedanticRegistry()
			require.NoError(t, plain.Register(c.collector))
			got := scrape(t, plain)
			require.Equal(t, names(want), names(got))
			for name, f := range got {
				require.Equal(t, shape(want[name]), shape(f), name)
				require.Equal(t, want[name].GetHelp(), f.GetHelp(), name)
				if f.GetType() == dto.MetricType_HISTOGRAM {
					require.Equal(t, bounds(want[name]), bounds(f), name)
				}
			}
		})
	}
}

func bounds(f *dto.MetricFamily) (all []float64) {
	for _, b := range f.GetMetric()[0].GetHistogram().GetBucket() {
		all = append(all, b.GetUpperBound())
	}
	return all
}

// TestDashboard: the queries of the dashboard are of metrics that a scrape has, each by a
// label that it has; and no metric is without a query.
func TestDashboard(t *testing.T) {
	text, err := os.ReadFile("grafana/sluice.json")
	require.NoError(t, err)
	var dashboard struct {
		Title      string
		Panels     []panel
		Templating struct{ List []struct{ Query any } }
	}
	require.NoError(t, json.Unmarshal(text, &dashboard))
	require.NotEmpty(t, dashboard.Title)

	families := exported(t, func(o telemetry.Options) { useAll(t, o) })
	asked := make(map[string]bool)
	name, label := regexp.MustCompile(`\bsluice_\w+`), regexp.MustCompile(`(\w+)\s*=~`)
	for _, p := range dashboard.Panels {
		if p.Type == "row" {
			continue
		}
		require.NotEmpty(t, p.Targets, p.Title)
		for _, query := range p.Targets {
			found := false
			labels := label.FindAllStringSubmatch(query.Expr, -1)
			for _, n := range name.FindAllString(query.Expr, -1) {
				family := n
				for _, suffix := range []string{"_bucket", "_count", "_sum"} {
					if f := families[strings.TrimSuffix(n, suffix)]; f.GetType() == dto.MetricType_HISTOGRAM {
						family = strings.TrimSuffix(n, suffix)
					}
				}
				f := families[family]
				if f == nil {
					require.True(t, slices.Contains(labelsOf(families), n), "%s: %s is neither a metric nor a label", p.Title, n)
					continue
				}
				found, asked[family] = true, true
				for _, l := range labels {
					require.Contains(t, strings.Fields(shape(f)), l[1], p.Title)
				}
			}
			require.True(t, found, "%s asks for no metric", p.Title)
		}
	}
	require.Equal(t, names(families), names(asked))
}

type panel struct {
	Title, Type string
	Targets     []struct{ Expr string }
}

func labelsOf(families map[string]*dto.MetricFamily) (all []string) {
	for _, f := range families {
		all = append(all, strings.Fields(shape(f))[1:]...)
	}
	return all
}
