package config_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
)

// TestOneSpelling: what servers read alike is one value, and what they read differently is an error.
func TestOneSpelling(t *testing.T) {
	header := config.KeyPart{Kind: config.KeyHeader, Name: "Authorization"}
	other := config.KeyPart{Kind: config.KeyHeader, Name: "X-Api-Key"}
	cookie := config.KeyPart{Kind: config.KeyCookie, Name: "sid"}
	query := config.KeyPart{Kind: config.KeyQuery, Name: "id"}
	for _, test := range []struct {
		part        config.KeyPart
		value, want string
	}{
		{header, "Bearer tok", "bearer tok"},
		{header, "BEARER \t tok", "bearer tok"},
		{header, "bearer TOK", "bearer TOK"},
		{header, "Tok", "Tok"},
		{header, "", ""},
		{header, "Bearer a.b-c_d==", "bearer a.b-c_d=="},
		{header, "Basic dTpw", "basic dTpw"},
		{header, `Digest username="a b",  uri="/"`, `digest username="a b", uri="/"`},
		{other, "Bearer  tok", "Bearer  tok"},
		{cookie, "abc", "abc"},
		{cookie, "%61b%63", "abc"},
		{cookie, ` "abc" `, "abc"},
		{cookie, "a+b", "a b"},
		{cookie, "a%20b", "a b"},
		{cookie, "a%2Bb", "a b"},
		{cookie, "a%zz", "a%zz"},
		{cookie, "%61%zz", "a%zz"},
		{cookie, "%2561", "%61"},
		{query, "a+b", "a b"},
		{query, "a%62", "a%62"}, // it was decoded before
	} {
		v, err := test.part.Read(test.value)
		require.NoError(t, err, test.value)
		assert.Equal(t, test.want, v, test.value)
	}
	for _, bad := range []string{"Bearer tok x", "Bearer\u00a0tok", "Basic dTpw=", "Basic dTp", "Basic dTpxeR==", "Basic dTpx!", "Basic dTpw eDp5"} {
		_, err := header.Read(bad)
		require.Error(t, err, bad)
	}
	_, err := cookie.Read(`"\141bc"`)
	require.Error(t, err)
}

// TestNames: of those that a server folds into one.
func TestNames(t *testing.T) {
	p := config.KeyPart{Kind: config.KeyQuery, Name: "user_id"}
	for _, name := range []string{
		"user_id", "user.id", "user id", " user_id", "user[id", "user_id[]", "user_id[0]", "user.id[a][b]", "[user_id]", "user_id]", "user_id\x00x",
	} {
		assert.True(t, p.IsNamed(name), "%q", name)
		assert.True(t, p.IsNamedFold(name), "%q", name)
	}
	for _, name := range []string{"", "user", "userid", "user_id_", "user-id", "xuser_id", "user_idx[0]", "[x]user_id"} {
		assert.False(t, p.IsNamedFold(name), "%q", name)
	}
	assert.False(t, p.IsNamed("User_ID"))
	assert.True(t, p.IsNamedFold("User.ID"))
	assert.True(t, config.KeyPart{Name: "filter[user]"}.IsNamed("filter[user]"))
	assert.False(t, config.KeyPart{Name: "filter[user]"}.IsNamed("filter[other]"))
}
