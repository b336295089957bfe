package rlslimit

// Parse reads the text of one file. The name is for the errors.
func Parse(file string, text []byte) (Config, error) {
	var c Config
	err := c.add(file, text, false)
	return c, err
}
