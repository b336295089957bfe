package simulate

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestPage: the page has the chart's data and the report, and asks no other host. Clients choose keys, and a page is opened in a
// browser.
func TestPage(t *testing.T) {
	f := flags{limit: "1/s", key: "agent", html: "page.html", top: 10}
	line := `192.0.2.1 - - [10/Oct/2025:13:55:36 +0000] "GET / HTTP/1.1" 200 1 "-" "</script><script>alert(1)</script>"` + "\n"
	r, err := f.simulate(nil, strings.NewReader(strings.Repeat(line, 9)))
	require.NoError(t, err)
	page := r.page(10)
	assert.Equal(t, 1, strings.Count(page, "<script"))
	assert.Equal(t, 1, strings.Count(page, "</script"))
	assert.Contains(t, page, `<td>&lt;/script&gt;&lt;script&gt;alert(1)&lt;/script&gt;</td><td>8</td><td><i style="width: 240px"></i></td>`)
	assert.Contains(t, page, "rejected          8   88.89 %")
	assert.Contains(t, page, `const output = {"width":1,"results":[{"bins":[{"arrivals":9,"grants":1,"rejections":8,"peak":9,"waiting":0,"left":-1}]}]};`)
	for _, other := range []string{"http:", "https:", "import ", "src=", "href=", "url("} {
		assert.NotContains(t, page, other)
	}
}
