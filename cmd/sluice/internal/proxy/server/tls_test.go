package server

import (
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/spec"
)

// certificate writes that of an httptest server, and its key.
func certificate(t *testing.T, s *httptest.Server) (cert, key string) {
	t.Helper()
	pair := s.TLS.Certificates[0]
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	der, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	require.NoError(t, err)
	write(t, cert, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]})))
	write(t, key, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})))
	return cert, key
}

// TestCertificates: their files are read with the configuration, and a limit is changed whatever is in them.
func TestCertificates(t *testing.T) {
	b := backendOf(t, hello)
	secure := httptest.NewTLSServer(http.HandlerFunc(hello))
	t.Cleanup(secure.Close)
	cert, key := certificate(t, secure)
	p := serves(t, "to: "+b.URL+"\ntls: {cert: "+cert+", key: "+key+"}\nglobal: {limit: fixed 1/1h}\n")
	write(t, cert, "broken")
	p.reload(true)
	assert.Contains(t, p.said.String(), "limits.yaml:3:13: tls: failed to find any PEM data")
	limit, err := spec.Parse("fixed 2/1h")
	require.NoError(t, err)
	require.NoError(t, p.change("global", []spec.Limit{limit}))
	client := secure.Client()
	for _, want := range []int{200, 200, 429} {
		a, err := client.Get("https://" + p.address)
		require.NoError(t, err)
		_ = a.Body.Close()
		assert.Equal(t, want, a.StatusCode)
	}
}

// TestHTTP2: over TLS, and without where the client knows that it may.
func TestHTTP2(t *testing.T) {
	b := backendOf(t, hello)
	secure := httptest.NewTLSServer(http.HandlerFunc(hello))
	t.Cleanup(secure.Close)
	cert, key := certificate(t, secure)
	for _, test := range []struct{ scheme, tls string }{
		{"https", "tls: {cert: " + cert + ", key: " + key + "}\n"},
		{"http", ""},
	} {
		p := serves(t, "to: "+b.URL+"\n"+test.tls+"global: {key: ip, limit: fixed 2/1h}\n")
		transport := secure.Client().Transport.(*http.Transport).Clone()
		transport.Protocols = new(http.Protocols)
		transport.Protocols.SetHTTP2(test.scheme == "https")
		transport.Protocols.SetUnencryptedHTTP2(test.scheme == "http")
		t.Cleanup(transport.CloseIdleConnections)
		client := http.Client{Transport: transport}
		for _, want := range []int{200, 200, 429} {
			a, err := client.Post(test.scheme+"://"+p.address, "text/plain", strings.NewReader("body"))
			require.NoError(t, err)
			_ = a.Body.Close()
			assert.Equal(t, want, a.StatusCode)
			assert.Equal(t, 2, a.ProtoMajor)
		}
	}
}
