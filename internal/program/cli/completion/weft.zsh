#compdef weft
# Completion of weft in zsh. Once, after compinit: source <(weft completion zsh)
# For good: weft completion zsh > "${fpath[1]}/_weft"
_weft() {
	local line name help
	local -a whole begun
	for line in "${(@f)$("${words[1]/#\~/$HOME}" complete-words zsh -- "${(@Q)words[2,CURRENT]}" 2>/dev/null)}"; do
		[[ -n $line ]] || continue
		name=${line%%$'\t'*} help=${line#*$'\t'}
		if [[ $name == *[=.] ]]; then
			begun+=("${name//:/\\:}:$help")
		else
			whole+=("${name//:/\\:}:$help")
		fi
	done
	if (( ! $#whole && ! $#begun )); then
		_files
		return
	fi
	(( $#begun )) && _describe -V weft begun -S ''
	(( $#whole )) && _describe -V weft whole
}
if [[ $funcstack[1] == _weft ]]; then
	_weft "$@"
else
	compdef _weft weft
fi
