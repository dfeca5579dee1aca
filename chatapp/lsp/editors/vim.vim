" chatapp: completion by a model on this machine, through ALE (Debian: vim-ale), which lists the offers while you type;
" Ctrl-N chooses one, Ctrl-Y takes it. The linters and other servers of ALE's go on as they are.
let g:ale_completion_enabled = 1
set completeopt=menu,menuone,noselect
silent! packadd ale

function! s:FindProject(buffer) abort
    let l:mark = ale#path#FindNearestDirectory(a:buffer, '.git')
    return empty(l:mark) ? expand('#' . a:buffer . ':p:h') : fnamemodify(l:mark, ':h:h')
endfunction

function! s:AddServer(language) abort
    let b:ale_linters = map(ale#linter#Get(a:language), 'v:val.name') + ['chatapp']
    call ale#linter#Define(a:language, {
    \   'name': 'chatapp',
    \   'lsp': 'stdio',
    \   'executable': "/path/to/chatapp",
    \   'command': '%e lsp',
    \   'project_root': function('s:FindProject'),
    \})
endfunction

autocmd FileType c,cpp,go,java,javascript,python,rust,typescript call s:AddServer(expand('<amatch>'))
autocmd FileType javascriptreact,typescriptreact call s:AddServer(substitute(expand('<amatch>'), 'react', '', ''))
