;; chatapp: completion by a model on this machine, through eglot, which has one server for each buffer:
;; in the modes named here that is chatapp. M-x eglot starts it in others. Needs Emacs 29, which has eglot.
(with-eval-after-load 'eglot
  (add-to-list 'eglot-server-programs '(prog-mode . ("/path/to/chatapp" "lsp"))))
(if (not (fboundp 'eglot-ensure))
    (display-warning 'chatapp "needs Emacs 29 or newer, or the package eglot")
  (dolist (hook '(python-mode-hook python-ts-mode-hook js-mode-hook js-ts-mode-hook
                  typescript-ts-mode-hook tsx-ts-mode-hook))
    (add-hook hook #'eglot-ensure)
    (when (fboundp 'completion-preview-mode) ; Emacs 30: grey text after three letters, which Tab takes
      (add-hook hook #'completion-preview-mode))))
