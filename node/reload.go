package node

import "errors"

var (
	// errNoFile is the error of a Reload without a file.
	errNoFile = errors.New("CONFIG_PATH names no file")
	// errStarting is the error of a Reload that nobody can put into effect yet.
	errStarting = errors.New("the node is still starting: have the file read again once it serves")
)

// Reload reads the YAML file again and puts what it says into effect, without losing what is known about targets.
// A file that is not valid changes nothing: the error is a *ConfigError with all that is wrong with it. It is for a
// node that runs.
func (n *Node) Reload() error {
	if n.cfg.ConfigPath == "" {
		return errNoFile
	}
	fresh := n.cfg // the rest of the configuration stays
	if problems := fresh.readTargets(); len(problems) > 0 {
		return &ConfigError{Problems: problems}
	}
	r := n.regime.Load()
	if r == nil {
		return errStarting
	}
	r.reload(fresh.Targets, fresh.Webhooks)
	return nil
}
