package simulate

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/cmd/sluice/internal/simulate/engine"
)

// Clients choose keys, and a page is opened in a browser.
func TestDocumentEscapes(t *testing.T) {
	var d document
	d.keys([]engine.KeyRow{{Name: engine.Name{Policy: "a&b", Key: `<script>alert("1")</script>`}}})
	require.Contains(t, d.String(), "<td>a&amp;b &lt;script&gt;alert(&#34;1&#34;)&lt;/script&gt;</td><td>0</td>")
	d.Reset()
	d.add("%s %s", markup("<svg>"), "<svg>")
	require.Equal(t, "<svg> &lt;svg&gt;", d.String())
}
